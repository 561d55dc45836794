package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLicencesAreRecognizedByTheirWording(t *testing.T) {
	t.Parallel()
	apache, err := os.ReadFile(filepath.Join(repository, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	const bsd = "Redistribution and use ... Redistributions of source code must retain the above. Redistributions in binary\nform must reproduce the above. "
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"the project's own", string(apache), []string{"Apache-2.0"}},
		{"one with marks of a comment", "// Permission is hereby granted, free\n// of charge, ... The above copyright notice and this permission\n// notice shall be included in", []string{"MIT"}},
		{"three clauses", bsd + "Neither the name may be used to endorse or promote\nproducts", []string{"BSD-3-Clause"}},
		{"two clauses", bsd, []string{"BSD-2-Clause"}},
		{"none that is known", "All rights reserved.", nil},
		{"one that must not be linked", "GNU GENERAL PUBLIC LICENSE\nVersion 3", nil},
		{"one that must not be linked beside one that may", bsd + "and the GNU Affero General Public License", nil},
	} {
		if got := identify(tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for expression, want := range map[string]bool{"MIT": true, "(GPL-3.0 OR MIT)": true, "GPL-3.0": false, "MIT AND GPL-3.0": false, "": false} {
		if got := allowed(expression); got != want {
			t.Errorf("%q is allowed: %v, want %v", expression, got, want)
		}
	}
}

func TestAModuleWithoutALicenceIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	c := component{Path: "example.org/none", Version: "v1.0.0"}
	if err := c.read(folder, []string{folder}); err == nil || !strings.Contains(err.Error(), "example.org/none v1.0.0 has no licence") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "LICENSE"), []byte("Nobody may use it."), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.read(folder, []string{folder}); err == nil || !strings.Contains(err.Error(), "no known and allowed licence") {
		t.Errorf("%v", err)
	}
}

func TestCodeOfOthersInAModuleHasItsOwnLicence(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	inner := filepath.Join(root, "third_party", "x")
	for folder, text := range map[string]string{root: "Licensed under the Apache License, Version 2.0", inner: "CC0 1.0 Universal"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "LICENSE"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var c component
	if err := c.read(root, []string{inner}); err != nil || !slices.Equal(c.Licenses, []string{"Apache-2.0", "CC0-1.0"}) || len(c.Texts) != 2 {
		t.Errorf("%v, %+v", err, c)
	}
}

// The bill of this test's own program.
func TestABillIsTheSameForTheSameProgram(t *testing.T) {
	t.Parallel()
	file, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := []component{{Path: "std", Licenses: []string{"BSD-3-Clause"}}}
	for _, m := range info.Deps {
		known = append(known, component{Path: m.Path, Version: m.Version, Licenses: []string{"Apache-2.0"}})
	}
	var bills [2]bytes.Buffer
	for i := range bills {
		if err := writeBill(&bills[i], program{"program", "v1.2.3", "0123"}, info, known); err != nil {
			t.Fatal(err)
		}
	}
	if bills[0].String() != bills[1].String() {
		t.Error("two bills of one program differ")
	}
	var bill struct {
		BomFormat, SpecVersion string
		Metadata               struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(bills[0].Bytes(), &bill); err != nil || bill.BomFormat != "CycloneDX" || bill.SpecVersion != "1.6" || bill.Metadata.Component.Version != "v1.2.3" {
		t.Fatalf("%v: %.200s", err, bills[0].Bytes())
	}
	if !slices.ContainsFunc(bill.Components, func(c struct{ Name, Version, Purl string }) bool { return c.Name == "std" && c.Version != "" }) {
		t.Errorf("the standard library is missing: %+v", bill.Components)
	}
	if len(info.Deps) > 0 {
		if err := writeBill(&bills[0], program{"program", "v1.2.3", "0123"}, info, nil); err == nil {
			t.Error("a module without a known licence is in the bill")
		}
	}
}
