//! What a person would otherwise have to remember.
pub(crate) fn run() -> anyhow::Result<()> {
    Ok(())
}
