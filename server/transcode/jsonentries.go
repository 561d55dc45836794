package transcode

// entry is the position of a map entry's key and value.
type entry struct {
	keyFrom, keyTo int
	value, end     int
}

// entries writes the entries of a map, sorted by their keys. The first one is at i, all
// others follow their tags.
func (p *printer) entries(f *field, i, end, depth int) int {
	first := len(p.out)
	count, after := p.count(f, i, end)
	if after == no {
		return no
	}
	var last entry
	for n := range count {
		e, ok := p.least(f, i, end, last, n > 0)
		if !ok {
			return no // A duplicate key.
		}
		p.out = append(p.out, ',')
		if p.out, ok = appendQuoted(p.out, p.wire[e.keyFrom:e.keyTo]); !ok {
			return no
		}
		p.out = append(p.out, ':')
		if p.value(f.entry, e.value, e.end, depth) != e.end {
			return no
		}
		last = e
	}
	p.enclose(first, '{', '}')
	return after
}

// count counts the entries, and returns where they end.
func (p *printer) count(f *field, i, end int) (n, after int) {
	for {
		if n++; n > maxEntries {
			return 0, no
		}
		_, to := p.entry(f, i, end)
		if to == no {
			return 0, no
		}
		if i = p.skipTag(f.tag, to, end); i == no {
			return n, to
		}
	}
}

// least returns the entry with the least key that is greater than the previous one's.
func (p *printer) least(f *field, i, end int, last entry, hasLast bool) (least entry, ok bool) {
	for i != no {
		e, to := p.entry(f, i, end)
		key := p.wire[e.keyFrom:e.keyTo]
		if (!hasLast || string(key) > string(p.wire[last.keyFrom:last.keyTo])) &&
			(!ok || string(key) < string(p.wire[least.keyFrom:least.keyTo])) {
			least, ok = e, true
		}
		i = p.skipTag(f.tag, to, end)
	}
	return least, ok
}

// entry parses an entry as encoders write it: key, then value.
func (p *printer) entry(f *field, i, end int) (e entry, after int) {
	from, to := p.span(i, end)
	if to == no {
		return entry{}, no
	}
	key := p.skipTag(keyTag, from, to)
	if key == no {
		return entry{}, no
	}
	if e.keyFrom, e.keyTo = p.span(key, to); e.keyTo == no {
		return entry{}, no
	}
	e.value, e.end = p.skipTag(f.entry.tag, e.keyTo, to), to
	if e.value == no {
		return entry{}, no
	}
	return e, to
}
