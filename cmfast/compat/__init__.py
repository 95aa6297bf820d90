"""Other libraries' functions, counted and computed by cmfast; each part needs the library that it is named after."""
