mod support;
#[test]
fn adhoc() {
    let Ok(path) = std::env::var("ADHOC") else { return };
    for line in std::fs::read_to_string(path).unwrap().lines() {
        println!("{line}\t{}", support::result_of(line));
    }
}
