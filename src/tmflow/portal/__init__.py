"""The Streamlit portal: state, data and components; one module per page in `pages`."""
