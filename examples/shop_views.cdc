-- Live views over a shop: order lines with names, what each customer has spent, and the ten best customers. They are kept up to
-- date as orders, customers and products change: what is read at the target is at every moment what the query would have said at the source.
--
--   cargo xtask demo --views          runs it against a server of its own
--   CDC_PASSWORD=cdc cargo run --release -- run examples/shop_views.cdc --set url=mysql://127.0.0.1:3306
--   cargo run --release -- test examples/shop_views.cdc
pipeline {
  name       = "shop_views"
  checkpoint = { dir = "./state/shop_views", every = "10s" }
}

param url: text = "mysql://127.0.0.1:3306"
param target: text = "shop_views.db"

source src = mysql {
  url      = "${url}"
  user     = "cdc"
  password = "${CDC_PASSWORD}"
  tables   = ["shop.orders", "shop.customers", "shop.products"]
}

sink dw = sqlite { path = "${target}" }

-- an order with the names that it stands for: a renamed customer changes all its orders
view order_lines =
  from src.orders as o
  |> join src.customers as c on o.customer_id = c.id
  |> join src.products as p on o.product_id = p.id
  |> select o.id, c.name as customer, p.title as product, o.quantity, o.amount, o.placed_at

view revenue =
  from src.orders
  |> aggregate sum(amount) as revenue, count(*) as orders, max(amount) as largest group by customer_id

-- a view on a view
view best_customers =
  from revenue as r
  |> join src.customers as c on r.customer_id = c.id
  |> select c.id, c.name, c.tier, r.revenue, r.orders
  |> top 10 by revenue desc

order_lines    => dw.order_lines
revenue        => dw.revenue
best_customers => dw.best_customers
