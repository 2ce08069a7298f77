-- A whole database into another MySQL or MariaDB server, live, and one derived table.
--
--   cargo xtask demo --target mysql   runs it against two servers of its own
pipeline {
  name       = "shop_mysql"
  checkpoint = { dir = "./state/shop_mysql", every = "10s" }
}

param url: text = "mysql://127.0.0.1:3306"
param target: text = "mysql://127.0.0.1:3307"

source src = mysql {
  url      = "${url}"
  user     = "cdc"
  password = "${CDC_PASSWORD}"
  tables   = ["shop.*", "!shop.tmp_*"]
  schema   = "shop.sql"
}

sink dw = mysql {
  url      = "${target}"
  database = "dw"
  user     = "cdc"
  password = "${DW_PASSWORD}"
}

-- every table, with its rows, and schema changes as they come
src.* => dw.*

-- some rows of one table, with computed columns
src.orders
  |> where amount >= 100 and quantity > 1
  |> select id, customer_id, amount, amount * 1.19 as gross, upper(message) as message
  => dw.big_orders key (id)

-- what this file must do: cargo run --release -- test examples/shop_mysql.cdc
test "large orders of several pieces, with tax" {
  given src.orders  + { id: 7, customer_id: 1, product_id: 3, quantity: 2, amount: 150.00, placed_at: "2026-01-01 10:00:00", message: "soon" },
      { id: 8, customer_id: 2, product_id: 3, quantity: 1, amount: 500.00, placed_at: "2026-01-01 10:05:00" }
  expect dw.big_orders = [
    { id: 7, customer_id: 1, amount: 150.00, gross: 178.50, message: "SOON" }
  ]
  when  src.orders  ~ { id: 8, quantity: 3 }
  when  src.orders  - { id: 7 }
  expect dw.big_orders = [ { id: 8, customer_id: 2, amount: 500.00, gross: 595.00, message: null } ]
}
