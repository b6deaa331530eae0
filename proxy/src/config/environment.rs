//! A configuration without a file: what the vendors' usual environment variables say.
//!
//! The variables are turned into the text of a file, which is then read like any other. So there is
//! one way into a [`super::Config`], and the text can be shown to someone who outgrows it.

use std::fmt::Write as _;

use super::vendors;

/// The most keys of one vendor: `OPENAI_API_KEY`, `OPENAI_API_KEY_2`, … `OPENAI_API_KEY_9`.
const MOST_KEYS: usize = 9;

/// The variable that Azure's SDK reads the address from.
const AZURE_ENDPOINT: &str = "AZURE_OPENAI_ENDPOINT";

/// The text of a file that says what the environment says; `None` when no vendor's variable is set.
pub fn text(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| variable(name).is_some_and(|value| !value.trim().is_empty());
    let mut text = String::new();
    for vendor in vendors::by_preference() {
        let Some(first) = vendor.key_env.filter(|name| set(name)) else {
            continue;
        };
        // Azure's address is each customer's own; their SDK reads it from a variable too.
        let own = vendor.base_url.is_none().then(|| variable(AZURE_ENDPOINT));
        let address = match own {
            None => String::new(),
            Some(Some(url)) if vendor.kind == "azure" => {
                format!("base_url = {}\n", toml::Value::from(url.trim()))
            }
            Some(_) => continue,
        };
        let further = (2..=MOST_KEYS)
            .map(|number| format!("{first}_{number}"))
            .filter(|name| set(name));
        let keys: Vec<_> = std::iter::once(first.to_owned())
            .chain(further)
            .map(|name| format!("{{ env = \"{name}\" }}"))
            .collect();
        // Where a vendor has a dialect of its own too, people still think of the vendor.
        let name = vendor.kind.trim_end_matches("-openai");
        let (kind, keys) = (vendor.kind, keys.join(", "));
        let _infallible = writeln!(
            text,
            "[providers.{name}]\nkind = \"{kind}\"\n{address}keys = [{keys}]\n"
        );
    }
    (!text.is_empty()).then_some(text)
}

/// The variables that are looked at, for messages.
pub fn variables() -> impl Iterator<Item = &'static str> {
    vendors::by_preference().filter_map(|vendor| vendor.key_env)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vendor_whose_key_is_set_becomes_a_provider() {
        let set = [
            "GEMINI_API_KEY",
            "OPENAI_API_KEY",
            "OPENAI_API_KEY_2",
            "XAI_API_KEY_2",
        ];
        let text = text(&|name| set.contains(&name).then(|| "secret".to_owned()));
        insta::assert_snapshot!(text.unwrap(), @r#"
        [providers.openai]
        kind = "openai"
        keys = [{ env = "OPENAI_API_KEY" }, { env = "OPENAI_API_KEY_2" }]

        [providers.gemini]
        kind = "gemini-openai"
        keys = [{ env = "GEMINI_API_KEY" }]
        "#);
    }

    #[test]
    fn azure_needs_its_address_too() {
        let key = |name: &str| (name == "AZURE_OPENAI_API_KEY").then(|| "secret".to_owned());
        assert_eq!(text(&key), None);
        let address = "https://team.openai.azure.com/";
        let both = |name: &str| key(name).or((name == AZURE_ENDPOINT).then(|| address.to_owned()));
        let text = text(&both).unwrap();
        assert!(
            text.contains("base_url = \"https://team.openai.azure.com/\"\n"),
            "{text}"
        );
    }

    #[test]
    fn without_any_key_there_is_nothing() {
        assert_eq!(text(&|_| None), None);
        assert_eq!(text(&|_| Some(" ".to_owned())), None);
    }
}
