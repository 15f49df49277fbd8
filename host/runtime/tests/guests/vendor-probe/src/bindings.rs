//! Generated from the contract.
wit_bindgen::generate!({
    path: "../../../../../wit",
    world: "vendor-plugin",
    pub_export_macro: false,
});
