package recommender

// Profile is the version of the controller that is reproduced: a set of named
// switches, read by the steps they concern. V136 is upstream as the package
// describes it; another version is another value of this type.
type Profile struct {
	name string
}

// V136 is Kubernetes v1.36, the reference.
var V136 = Profile{name: "v1.36"}

// Name returns the profile's name, for example "v1.36".
func (p *Profile) Name() string { return p.name }

// ProfileByName returns the profile of that name and whether there is one.
func ProfileByName(name string) (*Profile, bool) {
	for _, p := range profiles {
		if p.name == name {
			return p, true
		}
	}
	return nil, false
}

// ProfileNames returns the names of all profiles, the reference first.
func ProfileNames() []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.name
	}
	return names
}

var profiles = []*Profile{&V136}
