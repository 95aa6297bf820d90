"""What holds no examples to check: the gallery, which tests of its own run, and what the site makes of it."""

collect_ignore_glob = ["gallery/*", "pictures/*", "reference/*"]
