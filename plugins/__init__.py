"""The plugins that come with anycard; each folder is one."""
