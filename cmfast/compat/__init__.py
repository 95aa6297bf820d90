"""Drop-in replacements for other libraries' metrics; each subpackage needs the library that it is named after."""
