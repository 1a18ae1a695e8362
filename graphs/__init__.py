"""StateGraph builders and state schemas."""
