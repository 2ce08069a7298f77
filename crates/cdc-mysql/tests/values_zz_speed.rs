mod common;
use mysql_async::prelude::Queryable;
#[tokio::test]
async fn loads() {
    let mut conn = common::root(common::server()).await.unwrap();
    conn.query_drop("SELECT 1").await.unwrap();
    for set in ["cp1251","latin2","gbk","big5","sjis","cp932","euckr","gb2312","ujis","eucjpms","gb18030"] {
        let info = cdc_mysql::decode::charset::charset(set).unwrap();
        let t = std::time::Instant::now();
        cdc_mysql::charsets::load(&mut conn, info).await.unwrap();
        eprintln!("{set} {:?}", t.elapsed());
    }
}
