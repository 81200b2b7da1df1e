//! Keys, and what of the store belongs to whom.

use upliftmem_store::*;

use crate::support::*;

fn key(id: &str, tenant: &ScopeParts, permission: Permission, created_at: u64) -> ApiKey {
    ApiKey {
        id: id.into(),
        name: format!("key {id}"),
        tenant: tenant.clone(),
        permission,
        created_at: at(created_at),
        revoked_at: None,
    }
}

pub(crate) async fn a_key_is_found_by_its_hash_until_it_is_revoked(store: TestStore) {
    let tenant = alice().parts().clone();
    let first = key("k1", &tenant, Permission::Write, 1);
    let second = key("k2", &ScopeParts::default(), Permission::Admin, 2);
    store.create_key(first.clone(), KeyHash::of("s1")).await.unwrap();
    store.create_key(second.clone(), KeyHash::of("s2")).await.unwrap();
    let find = async |secret: &str| store.find_key(&KeyHash::of(secret)).await.unwrap();
    assert_eq!(find("s1").await, Some(first.clone()));
    assert_eq!(find("s2").await, Some(second.clone()));
    assert_eq!(find("S1").await, None);
    assert_eq!(find("").await, None);
    assert_eq!(store.list_keys().await.unwrap(), [first.clone(), second]);

    for (again, secret) in [
        (first.clone(), "other"),
        (key("k3", &tenant, Permission::Read, 3), "s1"),
    ] {
        let refused = store.create_key(again, KeyHash::of(secret)).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    }
    let nameless = ApiKey {
        name: String::new(),
        ..key("k4", &tenant, Permission::Read, 4)
    };
    assert!(store.create_key(nameless, KeyHash::of("s4")).await.is_err());

    assert!(store.revoke_key("k1", at(9)).await.unwrap());
    assert!(!store.revoke_key("k1", at(10)).await.unwrap());
    assert!(!store.revoke_key("nobody", at(10)).await.unwrap());
    assert_eq!(find("s1").await, None);
    assert_eq!(store.list_keys().await.unwrap()[0].revoked_at, Some(at(9)));
}

pub(crate) async fn a_tenant_sees_its_own_scopes_and_memories(store: TestStore) {
    let run = Scope::new(ScopeParts {
        run_id: Some("r".into()),
        ..alice().parts().clone()
    })
    .unwrap();
    let bob = Scope::user("bob").unwrap();
    for (number, scope) in (1..).zip([&alice(), &run, &bob]) {
        let batch = vec![note(number, "a mug")];
        store.add_memories(scope, at(0), batch).await.unwrap();
    }
    let tenant = alice().parts().clone();
    let pages = async |tenant: &ScopeParts| {
        let mut all = Vec::new();
        let mut after = 0;
        while let Some((place, scope)) = store.scopes(tenant, after, 1).await.unwrap().pop() {
            all.push(scope);
            after = place;
        }
        all
    };
    assert_eq!(pages(&tenant).await, [alice(), run.clone()]);
    assert_eq!(pages(bob.parts()).await, std::slice::from_ref(&bob));
    assert_eq!(pages(&ScopeParts::default()).await.len(), 3);
    let of = async |tenant: &ScopeParts, number| {
        let found = store.scope_of_memory(tenant, memory_id(number)).await;
        found.unwrap()
    };
    assert_eq!(of(&tenant, 1).await, Some(alice()));
    assert_eq!(of(&tenant, 2).await, Some(run));
    assert_eq!(of(&tenant, 3).await, None);
    assert_eq!(of(bob.parts(), 1).await, None);
    assert_eq!(of(&ScopeParts::default(), 3).await, Some(bob));
    assert_eq!(of(&ScopeParts::default(), 4).await, None);
}
