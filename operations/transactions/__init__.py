"""One transaction: found, explained, decided; and all that are pending."""
