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
}

sink dw = sqlite { path = "${target}" }

-- every table, with its rows, and schema changes as they come
src.* => dw.*

-- some rows of one table, with computed columns
src.orders
  |> where amount >= 100 and quantity > 1
  |> select id, customer_id, amount, amount * 1.19 as gross, upper(message) as message
  => dw.big_orders key (id)
