pipeline {
  name      = "shop"
  time_zone = "UTZ!"
  chekpoint = { dir = "./state" }
}

param since: date = "2026-02-30"

source src = mysql {
  url       = "mysql://127.0.0.1:3306"
  user      = "cdc"
  tables    = ["shop.*"]
  schema    = "shop.sql"
  server_id = 99999999999
}

sink dw   = sqlite { path = "dw.db" }
sink feed = stout { format = "debezium-json" }

scr.* => dw.*

src.orders
  |> where amuont > 0 and created_at >= ${since}
  => dw.big_orders

src.customers
  |> extend uper(name) as shout
  => dw.customers

src.coupons => dwh.coupons

src.orders
  |> where status == 'new'
  => dw.new_orders
