//! Tasks.

use upliftmem_store::*;

use crate::support::*;

pub(crate) async fn tasks_are_stored_once_and_never_changed(store: TestStore) {
    let batch = vec![task("a"), task("b")];
    assert_eq!(store.put_tasks(&alice(), batch.clone()).await.unwrap(), 2);
    assert_eq!(store.put_tasks(&alice(), batch.clone()).await.unwrap(), 0);
    let mut changed = task("b");
    changed.context = "something else".into();
    let error = store
        .put_tasks(&alice(), vec![task("c"), changed])
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert_eq!(
        store.task(&alice(), task("c").id).await.unwrap(),
        None,
        "a batch is stored whole or not at all"
    );
    assert_eq!(store.task(&alice(), task("b").id).await.unwrap(), Some(task("b")));
    let mut listed = store.list_tasks(&alice(), None, 10).await.unwrap();
    let second = store.list_tasks(&alice(), Some(listed[0].id), 10).await.unwrap();
    assert_eq!(second, listed[1..]);
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(listed, batch);
}
