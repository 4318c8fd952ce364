"""The pages of docs/: `reference` prints those that are tables, `pages` renews in the others what commands and programs have made."""
