"""Operations at once: what waits becomes programs, which are kept and replayed."""
