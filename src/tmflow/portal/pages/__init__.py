"""The pages of the portal, named as in portal/views/."""
