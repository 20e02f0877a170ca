"""What is known of memory: torch's allocator watched and filled, who wrote which bytes, what others see."""
