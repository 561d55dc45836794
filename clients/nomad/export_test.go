package nomad

// Kept returns of how many groups something is kept.
func (p *Platform) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.kept)
}
