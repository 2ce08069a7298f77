-- A whole database into PostgreSQL, live, and one derived table.
--
--   cargo xtask demo --target postgres   runs it against two servers of its own
pipeline {
  name       = "shop_postgres"
  checkpoint = { dir = "./state/shop_postgres", every = "10s" }
}

param url: text = "mysql://127.0.0.1:3306"
param target: text = "postgres://127.0.0.1:5432/dw"

source src = mysql {
  url      = "${url}"
  user     = "cdc"
  password = "${CDC_PASSWORD}"
  tables   = ["shop.*", "!shop.tmp_*"]
  schema   = "shop.sql"
}

sink dw = postgres {
  url      = "${target}"
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

-- what this file must do: cargo run --release -- test examples/shop_postgres.cdc
test "a new column comes behind the others" {
  given src.products  + { id: 1, sku: "P1", title: "Chair", price: 20, attributes: '{"size": 3}' }
  ddl   "ALTER TABLE shop.products ADD COLUMN stock INT NOT NULL DEFAULT 5 AFTER sku"
  when  src.products  + { id: 2,
      sku: "P2",
      stock: 7,
      title: "Lamp",
      price: 9.5,
      weight: 1.25,
      attributes: '[]' }
  expect dw.products columns (id, sku, title, price, weight, attributes, stock)
  expect dw.products = [
    { id: 1, sku: "P1", title: "Chair", price: 20.00, weight: null, attributes: '{"size": 3}', stock: 5 },
    { id: 2, sku: "P2", title: "Lamp", price: 9.50, weight: 1.25, attributes: '[]', stock: 7 }
  ]
}
