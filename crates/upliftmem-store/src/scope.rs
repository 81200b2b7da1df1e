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
        let named = [
            ("user_id", &parts.user_id),
            ("agent_id", &parts.agent_id),
            ("run_id", &parts.run_id),
            ("app_id", &parts.app_id),
        ];
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
        let (user_id, agent_id, run_id, app_id) = serde_json::from_str(key).ok()?;
        Self::new(ScopeParts {
            user_id,
            agent_id,
            run_id,
            app_id,
        })
        .ok()
    }

    /// The one spelling under which a database keys the scope.
    pub(crate) fn key(&self) -> String {
        let ScopeParts {
            user_id,
            agent_id,
            run_id,
            app_id,
        } = &self.0;
        serde_json::json!([user_id, agent_id, run_id, app_id]).to_string()
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
        let parts = [
            ("user_id", &self.0.user_id),
            ("agent_id", &self.0.agent_id),
            ("run_id", &self.0.run_id),
            ("app_id", &self.0.app_id),
        ];
        let mut separator = "";
        for (name, part) in parts {
            if let Some(part) = part {
                write!(out, "{separator}{name}={part:?}")?;
                separator = ",";
            }
        }
        Ok(())
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
}
