-- The shop of the examples, as `cargo xtask demo` creates it: what `cdc check` and `cdc test` know of its tables without a server.
CREATE TABLE customers (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(100) NOT NULL,
  email VARCHAR(190) NULL,
  tier ENUM('basic', 'silver', 'gold') NOT NULL DEFAULT 'basic',
  credit DECIMAL(12,2) NOT NULL DEFAULT 0,
  settings JSON NULL,
  created_at DATETIME(6) NOT NULL
);
CREATE TABLE products (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  sku CHAR(10) NOT NULL,
  title VARCHAR(120) NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  weight DOUBLE NULL,
  attributes JSON NOT NULL,
  UNIQUE KEY (sku)
);
CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id INT UNSIGNED NOT NULL,
  product_id INT UNSIGNED NOT NULL,
  quantity SMALLINT UNSIGNED NOT NULL,
  amount DECIMAL(12,2) NOT NULL,
  status ENUM('new', 'paid', 'shipped', 'returned') NOT NULL DEFAULT 'new',
  placed_at DATETIME(6) NOT NULL,
  shipped_at TIMESTAMP NULL,
  message VARCHAR(200) NULL,
  KEY (customer_id)
);
