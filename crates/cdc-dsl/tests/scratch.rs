mod common;
#[test]
fn scratch() {
    let path = std::env::var("CDC_FILE").unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let c = common::compile(&text);
    println!("{}", common::rendered(&c.diagnostics, &text));
    println!("{:#?}", c.plan);
    match cdc_dsl::format(&text) {
        Ok(t) => { println!("{t}"); assert_eq!(cdc_dsl::format(&t).unwrap(), t); assert!(cdc_dsl::parse(&t).unwrap() == cdc_dsl::parse(&text).unwrap()); }
        Err(d) => println!("{}", common::rendered(&d, &text)),
    }
}
