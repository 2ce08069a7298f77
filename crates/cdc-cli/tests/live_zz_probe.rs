mod support;
#[test]
fn probe() {
    let s = support::server();
    println!("{}", s.sql("CREATE DATABASE p; CREATE TABLE p.t (id INT PRIMARY KEY, d DOUBLE); INSERT INTO p.t VALUES (1, -2.2702653935157393e-11), (2, 2.2250738585072014e-308), (3,-0e0), (4, 1e15),(5,1e16), (6, 0.1), (7, 123456789.125), (8, -1.2345678901234567), (9, 12345678901234567890), (10, -0.00012345678901234567);
    SELECT d, CONCAT(d), CAST(d AS CHAR), CAST(d AS CHAR(100)), CONVERT(d USING utf8mb4), JSON_ARRAY(d), JSON_EXTRACT(JSON_ARRAY(d), '$[0]'), CAST(CAST(d AS JSON) AS CHAR), REPLACE(d, 'x', 'y'), CONCAT_WS('',d), GROUP_CONCAT(d) FROM p.t GROUP BY id, d").unwrap());
}
