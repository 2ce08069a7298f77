-- shop.cdc
pipeline {
  name       = "shop"
  checkpoint = { dir = "./state", every = "10s" }
  on_schema_change = lenient          -- exception | ignore | try_evolve | evolve | lenient
  time_zone  = "UTC"                  -- of date and time functions
}

param since: date = "2026-01-01"      -- cdc run shop.cdc --set since=2026-06-01

source src = mysql {
  url       = "mysql://127.0.0.1:3306"
  user      = "cdc"
  password  = "${CDC_PASSWORD}"
  tables    = ["shop.*", "!shop.tmp_*"]
  schema    = "shop.sql"              -- optional: CREATE TABLE text, for check and test without a server
  server_id = 5400
  start     = initial
}

sink dw   = sqlite { path = "dw.db" }
sink feed = stdout { format = "debezium-json" }

-- whole tables, schema changes and all
src.* => dw.*

-- many shards into one table
src./orders_[0-9]+/
  |> extend meta.table as shard
  => dw.orders key (shard, id)

-- name templates
src./(?<t>.*)_v2/ => dw."ods_{t}"

-- rows and columns
src.orders
  |> where amount > 0 and created_at >= ${since}
  |> select *, amount * 1.19 as gross, upper(status) as status_text
  => dw.big_orders key (id) with { on_schema_change = evolve, exclude = [drop_column] }

-- a view that is kept up to date through joins and aggregates
view order_lines =
  from src.orders as o
  |> join src.customers as c on o.customer_id = c.id
  |> left join src.coupons as k on o.coupon = k.code
  |> select o.id, c.name as customer, o.amount, coalesce(k.percent, 0) as percent

view revenue with { ttl = "400d" } =
  from order_lines
  |> aggregate sum(amount) as revenue, count(*) as orders, max(amount) as largest group by customer

order_lines => dw.order_lines key (id)
revenue     => dw.revenue                    -- key: the group by columns
revenue     => feed

-- what the pipeline must do, checked by `cdc test shop.cdc` with no server
test "an order of a renamed customer" {
  given src.customers  + { id: 1, name: "ann" }
  given src.orders     + { id: 7, customer_id: 1, amount: 5.00 }, { id: 8, customer_id: 1, amount: 2.00 }
  expect dw.order_lines = [ { id: 7, customer: "ann", amount: 5.00, percent: 0 }, { id: 8, customer: "ann", amount: 2.00, percent: 0 } ]
  when  src.customers  ~ { id: 1, name: "bea" }
  when  src.orders     - { id: 8 }
  expect dw.order_lines = [ { id: 7, customer: "bea", amount: 5.00, percent: 0 } ]
  ddl   "ALTER TABLE shop.orders ADD COLUMN note VARCHAR(20) AFTER id"
  expect dw.orders columns (shard, id, customer_id, amount, note)
}
