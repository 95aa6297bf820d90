"""What pages have in common, that of the demo and those of reports: one file each, in which nothing is fetched."""
