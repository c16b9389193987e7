//! The resources: the pages of the manual, and the language reference.

use serde_json::{Value, json};

use crate::json_rpc::RequestError;
use crate::manual;

const MANUAL: &str = "clk://manual/";
const REFERENCE: &str = "clk://reference";
const REFERENCE_TITLE: &str = "The Clk language reference";

/// Error code: there is no resource with this URI.
const NOT_FOUND: i64 = -32002;

/// Returns the result of `resources/list`.
pub(super) fn list() -> Value {
    let resource = |uri: String, name: &str, title: &str, size: usize| json!({ "uri": uri, "name": name, "title": title, "mimeType": "text/markdown", "size": size });
    let mut resources = vec![resource(REFERENCE.to_owned(), "reference", REFERENCE_TITLE, manual::REFERENCE.len())];
    resources.extend(manual::titles().map(|(topic, title)| {
        let size = manual::page(&topic).map_or(0, str::len);
        resource(format!("{MANUAL}{topic}"), &topic, title, size)
    }));
    json!({ "resources": resources })
}

/// Returns the result of `resources/read`.
pub(super) fn read(uri: &str) -> Result<Value, RequestError> {
    let text = match uri.strip_prefix(MANUAL) {
        // The manual also finds a topic by the last part of its name, but a resource has one URI.
        Some(topic) if manual::titles().any(|(known, _)| known == topic) => manual::page(topic),
        _ if uri == REFERENCE => Some(manual::REFERENCE),
        _ => None,
    };
    match text {
        Some(text) => Ok(json!({ "contents": [{ "uri": uri, "mimeType": "text/markdown", "text": text }] })),
        None => {
            let message = format!("there is no resource `{}`", uri.chars().take(200).collect::<String>());
            Err(RequestError { code: NOT_FOUND, message })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_resource_can_be_read() {
        let list = list();
        let resources = list["resources"].as_array().expect("a list");
        assert!(resources.len() > 40, "{}", resources.len());
        for resource in resources {
            let uri = resource["uri"].as_str().expect("a URI");
            let read = read(uri).expect("the resource");
            let text = read["contents"][0]["text"].as_str().expect("a text");
            assert_eq!(resource["size"], text.len(), "{uri}");
            assert!(resource["title"].as_str().is_some_and(|title| !title.is_empty()), "{uri}");
        }
        for missing in ["clk://manual/", "clk://manual/nothing", "clk://manual/../secret", "file:///etc/passwd", ""] {
            assert!(read(missing).is_err_and(|why| why.code == NOT_FOUND), "{missing}");
        }
    }
}
