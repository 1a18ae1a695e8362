"""LangChain's `AgentMiddleware` around the steps of our loop (EXT-07)."""
