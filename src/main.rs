//! capi-version-guard; see the library.

fn main() -> std::process::ExitCode {
    capi_version_guard::cli::run()
}
