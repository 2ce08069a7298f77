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
  schema   = "shop.sql"
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
  |> aggregate sum(amount) as revenue, count(*) as orders, max(amount) as largest
      group by customer_id

-- a view on a view
view best_customers =
  from revenue as r
  |> join src.customers as c on r.customer_id = c.id
  |> select c.id, c.name, c.tier, r.revenue, r.orders
  |> top 10 by revenue desc

order_lines    => dw.order_lines
revenue        => dw.revenue
best_customers => dw.best_customers key (id)

-- what this file must do
test "a renamed customer renames all its orders" {
  given src.customers  + { id: 1, name: "ann", created_at: "2026-01-01" }
  given src.products   + { id: 3, sku: "P3", title: "Chair", price: 19.90, attributes: '{}' }
  given src.orders     + { id: 7, customer_id: 1, product_id: 3, quantity: 2, amount: 39.80, placed_at: "2026-01-02 10:00:00" },
      { id: 8, customer_id: 1, product_id: 3, quantity: 1, amount: 19.90, placed_at: "2026-01-02 11:00:00" }
  when  src.customers  ~ { id: 1, name: "bea" }
  expect dw.order_lines = [
    { id: 7, customer: "bea", product: "Chair", quantity: 2, amount: 39.80, placed_at: "2026-01-02 10:00:00" },
    { id: 8, customer: "bea", product: "Chair", quantity: 1, amount: 19.90, placed_at: "2026-01-02 11:00:00" }
  ]
}

test "a customer without orders has no revenue" {
  given src.orders  + { id: 7, customer_id: 1, product_id: 3, quantity: 2, amount: 39.80, placed_at: "2026-01-02" },
      { id: 8, customer_id: 1, product_id: 3, quantity: 1, amount: 19.90, placed_at: "2026-01-02" }
  expect revenue = [ { customer_id: 1, revenue: 59.70, orders: 2, largest: 39.80 } ]
  when  src.orders  - { id: 7 }
  expect revenue = [ { customer_id: 1, revenue: 19.90, orders: 1, largest: 19.90 } ]
  when  src.orders  - { id: 8 }
  expect revenue = []
}

test "who spends more takes a place among the best ten" {
  given src.customers  + { id: 1, name: "ann", created_at: "2026-01-01" },
      { id: 2, name: "bea", created_at: "2026-01-01" },
      { id: 3, name: "cem", created_at: "2026-01-01" },
      { id: 4, name: "dea", created_at: "2026-01-01" },
      { id: 5, name: "eva", created_at: "2026-01-01" },
      { id: 6, name: "fay", created_at: "2026-01-01" },
      { id: 7, name: "gus", created_at: "2026-01-01" },
      { id: 8, name: "hal", created_at: "2026-01-01" },
      { id: 9, name: "ida", created_at: "2026-01-01" },
      { id: 10, name: "jon", created_at: "2026-01-01" },
      { id: 11, name: "kim", created_at: "2026-01-01" }
  given src.orders     + { id: 1, customer_id: 1, product_id: 1, quantity: 1, amount: 10, placed_at: "2026-01-02" },
      { id: 2, customer_id: 2, product_id: 1, quantity: 1, amount: 20, placed_at: "2026-01-02" },
      { id: 3, customer_id: 3, product_id: 1, quantity: 1, amount: 30, placed_at: "2026-01-02" },
      { id: 4, customer_id: 4, product_id: 1, quantity: 1, amount: 40, placed_at: "2026-01-02" },
      { id: 5, customer_id: 5, product_id: 1, quantity: 1, amount: 50, placed_at: "2026-01-02" },
      { id: 6, customer_id: 6, product_id: 1, quantity: 1, amount: 60, placed_at: "2026-01-02" },
      { id: 7, customer_id: 7, product_id: 1, quantity: 1, amount: 70, placed_at: "2026-01-02" },
      { id: 8, customer_id: 8, product_id: 1, quantity: 1, amount: 80, placed_at: "2026-01-02" },
      { id: 9, customer_id: 9, product_id: 1, quantity: 1, amount: 90, placed_at: "2026-01-02" },
      { id: 10, customer_id: 10, product_id: 1, quantity: 1, amount: 100, placed_at: "2026-01-02" },
      { id: 11, customer_id: 11, product_id: 1, quantity: 1, amount: 110, placed_at: "2026-01-02" }
  expect best_customers = [
    { id: 2, name: "bea", tier: "basic", revenue: 20.00, orders: 1 },
    { id: 3, name: "cem", tier: "basic", revenue: 30.00, orders: 1 },
    { id: 4, name: "dea", tier: "basic", revenue: 40.00, orders: 1 },
    { id: 5, name: "eva", tier: "basic", revenue: 50.00, orders: 1 },
    { id: 6, name: "fay", tier: "basic", revenue: 60.00, orders: 1 },
    { id: 7, name: "gus", tier: "basic", revenue: 70.00, orders: 1 },
    { id: 8, name: "hal", tier: "basic", revenue: 80.00, orders: 1 },
    { id: 9, name: "ida", tier: "basic", revenue: 90.00, orders: 1 },
    { id: 10, name: "jon", tier: "basic", revenue: 100.00, orders: 1 },
    { id: 11, name: "kim", tier: "basic", revenue: 110.00, orders: 1 }
  ]
  when  src.orders     + { id: 12,
      customer_id: 1,
      product_id: 1,
      quantity: 1,
      amount: 90,
      placed_at: "2026-01-03" }
  expect best_customers = [
    { id: 1, name: "ann", tier: "basic", revenue: 100.00, orders: 2 },
    { id: 3, name: "cem", tier: "basic", revenue: 30.00, orders: 1 },
    { id: 4, name: "dea", tier: "basic", revenue: 40.00, orders: 1 },
    { id: 5, name: "eva", tier: "basic", revenue: 50.00, orders: 1 },
    { id: 6, name: "fay", tier: "basic", revenue: 60.00, orders: 1 },
    { id: 7, name: "gus", tier: "basic", revenue: 70.00, orders: 1 },
    { id: 8, name: "hal", tier: "basic", revenue: 80.00, orders: 1 },
    { id: 9, name: "ida", tier: "basic", revenue: 90.00, orders: 1 },
    { id: 10, name: "jon", tier: "basic", revenue: 100.00, orders: 1 },
    { id: 11, name: "kim", tier: "basic", revenue: 110.00, orders: 1 }
  ]
}
