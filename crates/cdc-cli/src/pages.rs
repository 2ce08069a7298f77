//! The pages of `dsl/diagnostics/`, as they were when the program was built: it needs no folder at run time.

use cdc_core::diagnostic::Code;

macro_rules! pages {
    ($($code:literal)*) => {
        /// Each code and its page, in order.
        const PAGES: &[(&str, &str)] =
            &[$(($code, include_str!(concat!("../../../dsl/diagnostics/", $code, ".md")))),*];
    };
}

pages! {
    "E0101" "E0102" "E0103" "E0104" "E0105" "E0106" "E0107"
    "E0201" "E0202" "E0203" "E0204" "E0205" "E0206" "E0207" "E0208" "E0209" "E0210" "E0211" "E0212"
    "E0214" "E0215" "E0216" "E0217" "E0218"
    "E0301" "E0302" "E0303" "E0304" "E0305" "E0306" "E0307" "E0308" "E0309"
    "E0310" "E0311" "E0312" "E0313" "E0314"
    "E0401" "E0402" "E0403" "E0404" "E0405" "E0406" "E0407" "E0408"
    "E0503" "E0504"
    "E1001" "E1002" "E1003" "E1004" "E1005" "E1006" "E1007" "E1008" "E1009" "E1010" "E1011"
    "E1101" "E1102" "E1103" "E1104"
    "E1201" "E1202" "E1203" "E1204" "E1205" "E1206" "E1207" "E1208" "E1209" "E1210"
    "E1301" "E1302" "E1303" "E1304" "E1305" "E1306" "E1307" "E1308" "E1309" "E1310" "E1311"
    "E2001" "E2002" "E2003" "E2004" "E2005" "E2006" "E2007" "E2008" "E2009" "E2010"
    "E2011" "E2012"
    "E3001" "E3002" "E3003" "E3004" "E3005" "E3006" "E3007" "E3008"
    "E4001" "E4002" "E4003" "E4004" "E4005" "E4006" "E4007"
}

/// The page of a code, in Markdown.
pub fn of(code: Code) -> Option<&'static str> {
    let name = code.to_string();
    PAGES.iter().find(|(code, _)| *code == name).map(|(_, page)| *page)
}

#[cfg(test)]
mod tests {
    use cdc_core::codes;

    #[test]
    fn every_code_has_its_page() {
        let names: Vec<&str> = super::PAGES.iter().map(|(code, _)| *code).collect();
        let codes: Vec<String> = codes::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(names, codes, "the table of this file names each page of dsl/diagnostics/");
        for code in codes::ALL {
            let page = super::of(*code).unwrap_or_default();
            assert!(page.starts_with(&format!("# {code}: {}\n", code.title)), "{code}");
        }
    }
}
