//! The names players see: "soapbar 2" for an id such as `soapbar_bar__plus_01_dot_65...`.

use std::collections::BTreeMap;

/// Names for lower-case ids given in sorted order: the type, with `basin` where the id has it, and a number that counts
/// down within the type. An id without coordinates is its own name.
pub(super) fn names(sorted_ids: &[&str]) -> Vec<String> {
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for id in sorted_ids {
        if let Some(base) = base_name(id) {
            *left.entry(base).or_default() += 1;
        }
    }
    let mut name = |id: &&str| {
        let Some(base) = base_name(id) else {
            return (*id).to_owned();
        };
        let number = left
            .get_mut(&base)
            .map_or(0, |count| std::mem::replace(count, *count - 1));
        format!("{base} {number}")
    };
    sorted_ids.iter().map(&mut name).collect()
}

fn base_name(id: &str) -> Option<String> {
    let (kind, _) = id.split_once("_bar_")?;
    Some(if id.contains("basin") {
        format!("{kind}basin")
    } else {
        kind.to_owned()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_count_down_within_a_type() {
        let ids = [
            "apple",
            "sink_bar_1",
            "sink_bar_1_bar_sinkbasin",
            "vase_bar_1",
            "vase_bar_2",
        ];
        assert_eq!(
            super::names(&ids),
            ["apple", "sink 1", "sinkbasin 1", "vase 2", "vase 1"]
        );
    }
}
