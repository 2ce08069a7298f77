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
