use clap::CommandFactory as _;

use super::*;

#[test]
fn the_arguments_are_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn every_command_has_help_with_an_example() {
    fn visit(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        assert!(command.get_about().is_some(), "{path} has no summary");
        let examples = command.get_after_help().map(ToString::to_string);
        let examples = examples.unwrap_or_default();
        assert!(examples.contains("whippletree "), "{path} has no example");
        for command in command.get_subcommands() {
            visit(command, &path);
        }
    }
    for command in Arguments::command().get_subcommands() {
        visit(command, "");
    }
}
