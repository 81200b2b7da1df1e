//! Who calls: keys, what they allow, and the caller that a request is found to have.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use rand::TryRng;
use sha2::{Digest, Sha256};
use upliftmem_store::{ApiKey, KeyHash, Permission, ScopeParts, Tenancy, Timestamp};

use crate::{
    app::Shared,
    error::{ApiError, Code, Result},
    limits::keep_pace,
    traces::Trace,
};

/// How long a key that was looked up is believed; a revoked one stops, and a changed quota counts, that much later.
const BELIEVED: Duration = Duration::from_secs(5);
/// Keys that are remembered, valid and invalid ones alike.
const REMEMBERED_MAX: usize = 4_096;

/// Who sent a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The key's name, or `anonymous`.
    pub(crate) id: String,
    /// Whether no key was needed.
    pub(crate) anonymous: bool,
    pub(crate) permission: Permission,
    /// Every scope of the caller has these parts.
    pub(crate) tenant: ScopeParts,
    /// Tenants whose quota says how many requests a second all their keys may send together.
    pub(crate) paces: Vec<(String, f64)>,
    /// The span of the request.
    pub(crate) trace: Trace,
}

impl Caller {
    /// The caller that [`authorize`] found.
    pub(crate) fn of(parts: &Parts) -> Result<Self> {
        let found = parts.extensions.get::<Self>().cloned();
        found.ok_or_else(|| ApiError::new(Code::Unauthorized, "this route was reached without a caller"))
    }

    /// Whoever calls where no key is needed.
    pub(crate) fn anonymous() -> Self {
        Self {
            id: "anonymous".into(),
            anonymous: true,
            permission: Permission::Admin,
            tenant: ScopeParts::default(),
            paces: Vec::new(),
            trace: Trace::default(),
        }
    }

    /// A caller that reaches nothing.
    pub(crate) fn nobody() -> Self {
        Self {
            anonymous: false,
            permission: Permission::Read,
            id: "nobody".into(),
            // No scope has an empty part.
            tenant: ScopeParts {
                user_id: Some(String::new()),
                ..ScopeParts::default()
            },
            paces: Vec::new(),
            trace: Trace::default(),
        }
    }

    /// Refuses a caller that may do less.
    pub(crate) fn require(&self, needed: Permission) -> Result<()> {
        if self.permission >= needed {
            return Ok(());
        }
        Err(ApiError::new(
            Code::Forbidden,
            format_args!(
                "key {} allows {}; this needs {}: make a key with `upliftmem keys create --permission {}`",
                self.id,
                self.permission.as_str(),
                needed.as_str(),
                needed.as_str()
            ),
        ))
    }
}

impl axum::extract::FromRequestParts<Shared> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &Shared) -> Result<Self> {
        Self::of(parts)
    }
}

/// A key, and the tenants that it counts for with their requests a second.
#[derive(Debug, Clone)]
pub(crate) struct KnownKey {
    key: ApiKey,
    paces: Vec<(String, f64)>,
}

/// Keys by the hash of their secret, with the moment they were looked up.
type LookedUp = HashMap<[u8; 32], (Instant, Option<KnownKey>)>;

/// Keys that were looked up a moment ago.
#[derive(Default)]
pub(crate) struct KeyCache(Mutex<LookedUp>);

impl KeyCache {
    pub(crate) async fn find(&self, store: &dyn Tenancy, secret: &str) -> Result<Option<KnownKey>> {
        let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        if let Some((at, key)) = self.lock().get(&digest)
            && at.elapsed() < BELIEVED
        {
            return Ok(key.clone());
        }
        let key = match store.find_key(&KeyHash::of(secret)).await? {
            None => None,
            Some(key) => {
                let quotas = store.quotas_over(&key.tenant).await?.into_iter();
                let paces = quotas.filter_map(|quota| {
                    let pace = quota.limits.requests_per_second?;
                    Some((quota.tenant.to_string(), pace))
                });
                Some(KnownKey {
                    paces: paces.collect(),
                    key,
                })
            }
        };
        let mut known = self.lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(digest, (Instant::now(), key.clone()));
        Ok(key)
    }

    /// Forgets everything, so that a key that was revoked here stops at once.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LookedUp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of a request: `Authorization: Bearer`, or `Token` as clients of mem0 send it.
fn secret(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    let known = scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token");
    Some(secret.trim()).filter(|secret| known && !secret.is_empty())
}

/// Finds the caller of a request.
pub(crate) async fn identify(app: &Shared, headers: &HeaderMap) -> Result<Caller> {
    if !app.authenticated {
        return Ok(Caller::anonymous());
    }
    let Some(secret) = secret(headers) else {
        return Err(ApiError::new(
            Code::Unauthorized,
            "no key was sent; send `Authorization: Bearer KEY`, and make one with `upliftmem keys create`",
        ));
    };
    let store = app.store();
    let key = app.keys.find(store.as_ref(), secret).await?;
    let KnownKey { key, paces } =
        key.ok_or_else(|| ApiError::new(Code::Unauthorized, "the key is not known or was revoked"))?;
    Ok(Caller {
        id: key.id,
        anonymous: false,
        permission: key.permission,
        tenant: key.tenant,
        paces,
        trace: Trace::default(),
    })
}

/// Lets a request through to a route that needs this permission.
pub(crate) async fn authorize(
    State((app, needed)): State<(Shared, Permission)>,
    mut request: Request,
    next: Next,
) -> Response {
    let found = identify(&app, request.headers()).await;
    let mut caller = match found.and_then(|caller| caller.require(needed).map(|()| caller)) {
        Ok(caller) => caller,
        Err(error) => return error.into_response(),
    };
    caller.trace = request.extensions().get::<Trace>().cloned().unwrap_or_default();
    if let Err(error) = keep_pace(&app, &caller) {
        return error.into_response();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// Whether one tenant's scopes are all another's too.
pub(crate) fn tenant_within(inner: &ScopeParts, outer: &ScopeParts) -> bool {
    let within = |inner: &Option<String>, outer: &Option<String>| outer.is_none() || inner == outer;
    within(&inner.user_id, &outer.user_id)
        && within(&inner.agent_id, &outer.agent_id)
        && within(&inner.run_id, &outer.run_id)
        && within(&inner.app_id, &outer.app_id)
}

/// Makes a key and stores its hash. The secret is returned once and is nowhere after that.
pub async fn create_key(
    store: &dyn Tenancy,
    name: &str,
    tenant: ScopeParts,
    permission: Permission,
) -> Result<(ApiKey, String), KeyError> {
    let mut bytes = [0_u8; 38];
    rand::rngs::SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|error| KeyError(format!("the operating system has no randomness: {error}")))?;
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let (name_bytes, secret_bytes) = bytes.split_at(6);
    let id = format!("key_{}", hex(name_bytes));
    let secret = format!("um_{}", hex(secret_bytes));
    let key = ApiKey {
        id,
        name: name.to_owned(),
        tenant,
        permission,
        created_at: Timestamp::now(),
        revoked_at: None,
    };
    store
        .create_key(key.clone(), KeyHash::of(&secret))
        .await
        .map_err(|error| KeyError(error.to_string()))?;
    Ok((key, secret))
}

/// Why a key was not made.
#[derive(Debug)]
pub struct KeyError(pub(crate) String);

impl std::fmt::Display for KeyError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_schemes_are_read_and_nothing_else() {
        let read = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            secret(&headers).map(ToOwned::to_owned)
        };
        assert_eq!(read("Bearer um_1").as_deref(), Some("um_1"));
        assert_eq!(read("token um_1").as_deref(), Some("um_1"));
        for bad in ["um_1", "Basic um_1", "Bearer ", "Bearer"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        assert_eq!(secret(&HeaderMap::new()), None);
    }
}
