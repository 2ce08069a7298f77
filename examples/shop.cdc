-- A whole database into SQLite, live, and one derived table.
--
--   cargo xtask demo                  runs it against a server of its own
--   CDC_PASSWORD=cdc cargo run --release -- run examples/shop.cdc --set url=mysql://127.0.0.1:3306
pipeline {
  name       = "shop"
  checkpoint = { dir = "./state/shop", every = "10s" }
}

param url: text = "mysql://127.0.0.1:3306"
param target: text = "shop.db"

source src = mysql {
  url      = "${url}"
  user     = "cdc"
  password = "${CDC_PASSWORD}"
  tables   = ["shop.*", "!shop.tmp_*"]
  schema   = "shop.sql"
}

sink dw = sqlite { path = "${target}" }

-- every table, with its rows, and schema changes as they come
src.* => dw.*

-- some rows of one table, with computed columns
src.orders
  |> where amount >= 100 and quantity > 1
  |> select id, customer_id, amount, amount * 1.19 as gross, upper(message) as message
  => dw.big_orders key (id)

-- what this file must do: cargo run --release -- test examples/shop.cdc
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
