// LATENTD_SANITIZED is defined where AddressSanitizer or ThreadSanitizer bring a heap of their own,
// which a test program cannot replace.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LATENTD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LATENTD_SANITIZED 1
#endif
#endif
