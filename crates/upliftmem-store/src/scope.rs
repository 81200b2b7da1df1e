//! Whose data it is. There is no method of a store that does without.

use std::fmt;

use serde::{Deserialize, Serialize};
use upliftmem_core::InvalidInput;

/// Longest part of a scope, in bytes.
pub const SCOPE_PART_BYTES_MAX: usize = 256;

/// The owner of rows: a user, an agent, a run, an application, or any of them together.
///
/// A scope addresses exactly its own rows. `user_id = a` and `user_id = a, run_id = r` are two scopes that do
/// not see each other: there is no widening and no wildcard, so a forgotten part can not open a door.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "ScopeParts", into = "ScopeParts")]
pub struct Scope(ScopeParts);

/// The parts of a scope before they are checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScopeParts {
    /// The person or tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// One run or session of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
}

impl Scope {
    /// Checks the parts: at least one is given, none is empty, long, padded or has control characters.
    pub fn new(parts: ScopeParts) -> Result<Self, InvalidInput> {
        let named = parts.named();
        if named.iter().all(|(_, part)| part.is_none()) {
            return Err(InvalidInput::new(
                "scope",
                "none is given; give at least one of user_id, agent_id, run_id, app_id",
            ));
        }
        for (name, part) in named {
            if let Some(part) = part {
                check_part(name, part)?;
            }
        }
        Ok(Self(parts))
    }

    /// The scope of one user alone.
    pub fn user(user_id: impl Into<String>) -> Result<Self, InvalidInput> {
        Self::new(ScopeParts {
            user_id: Some(user_id.into()),
            ..ScopeParts::default()
        })
    }

    /// The scope of one agent alone.
    pub fn agent(agent_id: impl Into<String>) -> Result<Self, InvalidInput> {
        Self::new(ScopeParts {
            agent_id: Some(agent_id.into()),
            ..ScopeParts::default()
        })
    }

    /// The parts it was made of.
    pub fn parts(&self) -> &ScopeParts {
        &self.0
    }

    /// Whether it has all these parts: whether it belongs to that tenant. Everything belongs to the tenant without
    /// parts.
    pub fn within(&self, tenant: &ScopeParts) -> bool {
        let has = |own: &Option<String>, wanted: &Option<String>| wanted.is_none() || own == wanted;
        has(&self.0.user_id, &tenant.user_id)
            && has(&self.0.agent_id, &tenant.agent_id)
            && has(&self.0.run_id, &tenant.run_id)
            && has(&self.0.app_id, &tenant.app_id)
    }

    /// The scope of a database's key.
    pub(crate) fn from_key(key: &str) -> Option<Self> {
        Self::new(ScopeParts::from_key(key)?).ok()
    }

    /// The one spelling under which a database keys the scope.
    pub(crate) fn key(&self) -> String {
        self.0.key()
    }
}

impl ScopeParts {
    /// The parts by their names, in the order of keys.
    fn named(&self) -> [(&'static str, &Option<String>); 4] {
        [
            ("user_id", &self.user_id),
            ("agent_id", &self.agent_id),
            ("run_id", &self.run_id),
            ("app_id", &self.app_id),
        ]
    }

    /// The one spelling under which a database keys a scope or a tenant.
    pub(crate) fn key(&self) -> String {
        serde_json::json!(self.named().map(|(_, part)| part)).to_string()
    }

    /// The parts of a database's key.
    pub(crate) fn from_key(key: &str) -> Option<Self> {
        let (user_id, agent_id, run_id, app_id) = serde_json::from_str(key).ok()?;
        Some(Self {
            user_id,
            agent_id,
            run_id,
            app_id,
        })
    }

    /// The parts with their places in a key.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, &str)> {
        let parts = self.named().map(|(_, part)| part.as_deref());
        (0..).zip(parts).filter_map(|(place, part)| Some((place, part?)))
    }

    /// The keys of every tenant that all scopes with these parts belong to, the one without parts included.
    pub(crate) fn tenants(&self) -> Vec<String> {
        let mut tenants = vec![Self::default()];
        for (place, part) in self.places() {
            for mut tenant in tenants.clone() {
                let parts = [
                    &mut tenant.user_id,
                    &mut tenant.agent_id,
                    &mut tenant.run_id,
                    &mut tenant.app_id,
                ];
                if let Some(slot) = parts.into_iter().nth(place) {
                    *slot = Some(part.to_owned());
                }
                tenants.push(tenant);
            }
        }
        tenants.iter().map(Self::key).collect()
    }
}

impl fmt::Display for ScopeParts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, part) in self.named() {
            if let Some(part) = part {
                write!(out, "{separator}{name}={part:?}")?;
                separator = ",";
            }
        }
        if separator.is_empty() {
            out.write_str("all scopes")?;
        }
        Ok(())
    }
}

fn check_part(name: &str, part: &str) -> Result<(), InvalidInput> {
    let problem = if part.is_empty() {
        "is empty; leave it out instead".to_owned()
    } else if part.len() > SCOPE_PART_BYTES_MAX {
        format!(
            "has {} bytes, at most {SCOPE_PART_BYTES_MAX} are allowed",
            part.len()
        )
    } else if part.chars().any(char::is_control) {
        "has control characters".to_owned()
    } else if part.trim() != part {
        "starts or ends with white space".to_owned()
    } else {
        return Ok(());
    };
    Err(InvalidInput::new(name, problem))
}

impl TryFrom<ScopeParts> for Scope {
    type Error = InvalidInput;

    fn try_from(parts: ScopeParts) -> Result<Self, InvalidInput> {
        Self::new(parts)
    }
}

impl From<Scope> for ScopeParts {
    fn from(scope: Scope) -> Self {
        scope.0
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_needs_a_part_and_each_part_is_checked_by_name() {
        assert!(Scope::new(ScopeParts::default()).is_err());
        for bad in ["", " a", "a\n", "a\0b", &"x".repeat(257)] {
            let error = Scope::user(bad).unwrap_err();
            assert_eq!(error.what(), "user_id", "{bad:?}");
        }
    }

    #[test]
    fn different_scopes_have_different_keys() {
        let user = Scope::user("a").unwrap();
        let agent = Scope::agent("a").unwrap();
        let tricky = Scope::user("a\",null").unwrap();
        assert_ne!(user.key(), agent.key());
        assert_ne!(user.key(), tricky.key());
        let narrow = Scope::new(ScopeParts {
            user_id: Some("a".into()),
            run_id: Some("r".into()),
            ..ScopeParts::default()
        })
        .unwrap();
        assert_ne!(user.key(), narrow.key());
        assert_eq!(narrow.to_string(), r#"user_id="a",run_id="r""#);
        for scope in [user, agent, tricky, narrow] {
            assert_eq!(Scope::from_key(&scope.key()), Some(scope));
        }
        assert_eq!(Scope::from_key("[null,null,null,null]"), None);
        assert_eq!(Scope::from_key("[1]"), None);
    }

    #[test]
    fn a_scope_is_within_a_tenant_if_it_has_all_its_parts() {
        let scope = Scope::user("a").unwrap();
        assert!(scope.within(&ScopeParts::default()));
        assert!(scope.within(scope.parts()));
        assert!(!scope.within(Scope::user("A").unwrap().parts()));
        assert!(!scope.within(Scope::agent("a").unwrap().parts()));
        let narrow = Scope::new(ScopeParts {
            run_id: Some("r".into()),
            ..scope.parts().clone()
        })
        .unwrap();
        assert!(narrow.within(scope.parts()));
        assert!(!scope.within(narrow.parts()));
    }

    #[test]
    fn a_scope_is_read_checked() {
        assert!(serde_json::from_str::<Scope>("{}").is_err());
        assert!(serde_json::from_str::<Scope>(r#"{"user":"a"}"#).is_err());
        assert_eq!(
            serde_json::from_str::<Scope>(r#"{"user_id":"a"}"#).unwrap(),
            Scope::user("a").unwrap()
        );
    }

    #[test]
    fn a_scope_belongs_to_every_tenant_made_of_its_parts() {
        let scope = Scope::new(ScopeParts {
            user_id: Some("a".into()),
            app_id: Some("s".into()),
            ..ScopeParts::default()
        })
        .unwrap();
        let mut tenants = scope.parts().tenants();
        tenants.sort();
        let expected = [
            r#"["a",null,null,"s"]"#,
            r#"["a",null,null,null]"#,
            r#"[null,null,null,"s"]"#,
            "[null,null,null,null]",
        ];
        assert_eq!(tenants, expected);
        for tenant in tenants {
            assert!(scope.within(&ScopeParts::from_key(&tenant).unwrap()));
        }
        assert_eq!(ScopeParts::default().to_string(), "all scopes");
    }
}
