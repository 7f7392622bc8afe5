"""The Streamlit portal: its state, data and components; one module a page in `pages`."""
