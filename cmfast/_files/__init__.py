"""Files in and out: tables, points, archives, results that appear whole or not at all."""
