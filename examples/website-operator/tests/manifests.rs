//! What the operator needs in a cluster: CRDs, roles, a Deployment.

use std::error::Error;
use std::path::Path;

use steersman::manifests::operator::plain;

use website_operator::program;

#[test]
fn the_manifests_need_no_cluster() -> Result<(), Box<dyn Error>> {
    plain(&program().model()?)?;
    Ok(())
}

/// Once they are written with `manifests --out deploy`.
#[test]
fn the_folder_deploy_is_up_to_date() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    if folder.exists() {
        let changes = plain(&program().model()?)?.check(&folder)?;
        assert!(changes.is_empty(), "write them again: {changes:?}");
    }
    Ok(())
}
