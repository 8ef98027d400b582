package hcl

// limiter reads the limiter block of a plugin; nil without one.
func (r *reader) limiter(b *block) *Limiter {
	blocks := b.inner(&r.ds, "limiter", topBlocks["plugin"])
	if len(blocks) == 0 {
		return nil
	}
	b = blocks[0]
	return &Limiter{
		Requests:    int64(r.number(b, "requests_per_minute", 0, 1, maxCount, true)),
		Tokens:      int64(r.number(b, "tokens_per_minute", 0, 1, maxCount, true)),
		Concurrency: int(r.number(b, "concurrency", 0, 1, 100_000, true)),
		Range:       rangeOf(b.header()),
	}
}

// breaker reads the breaker block of a plugin.
func (r *reader) breaker(b *block) (x Breaker) {
	for _, b := range b.inner(&r.ds, "breaker", topBlocks["plugin"]) {
		x.Failures = int(r.number(b, "failures", 0, 1, 1000, true))
		x.Cooldown = r.positive(b, "cooldown")
	}
	return x
}
