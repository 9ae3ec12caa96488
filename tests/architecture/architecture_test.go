// Package architecture checks the rules that no compiler checks: who may import whom, and what no source may do.
package architecture

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// listed is a package as `go list` describes it.
type listed struct {
	ImportPath string
	Standard   bool
	CgoFiles   []string
	Imports    []string
}

// list describes the packages of this module that match a pattern; with deps also everything they need.
func list(t *testing.T, pattern string, deps bool) []listed {
	t.Helper()
	arguments := []string{"list", "-json=ImportPath,Standard,CgoFiles,Imports"}
	if deps {
		arguments = append(arguments, "-deps")
	}
	command := exec.Command("go", append(arguments, pattern)...)
	command.Dir = root
	text, err := command.Output()
	require.NoError(t, err)
	var packages []listed
	for decoder := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}

func TestTheEngineNeedsOnlyTheStandardLibraryAndTheInterfacesOfKernels(t *testing.T) {
	for _, p := range list(t, "./engine/...", true) {
		allowed := p.Standard || strings.HasPrefix(p.ImportPath, "dsstne/engine/") ||
			strings.HasPrefix(p.ImportPath, "dsstne/internal/") || p.ImportPath == "dsstne/kernels"
		require.True(t, allowed, "an engine package depends on %s", p.ImportPath)
	}
}

func TestTheEngineHasNoCgo(t *testing.T) {
	for _, p := range list(t, "./engine/...", false) {
		require.Empty(t, p.CgoFiles, p.ImportPath)
	}
}

func TestNoImportPointsUp(t *testing.T) {
	layers := []string{"internal", "kernels", "engine", "capi"} // from the bottom
	for level, layer := range layers {
		for _, p := range list(t, "./"+layer+"/...", false) {
			for _, imported := range p.Imports {
				for _, above := range layers[level+1:] {
					require.False(t, strings.HasPrefix(imported, "dsstne/"+above), "%s imports %s", p.ImportPath, imported)
				}
			}
		}
	}
}

func TestPackagesImportWhatTheMapInTheDocumentSays(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	allowed := map[string]map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:engine/|internal/|kernels)[a-z/]*)` \\|.*\\| *([a-z/, ]*) \\|$").FindAllStringSubmatch(string(document), -1) {
		allowed[row[1]] = map[string]bool{}
		for name := range strings.SplitSeq(row[2], ",") {
			name = strings.TrimSpace(name)
			switch {
			case slices.Contains([]string{"fault", "file", "parallel", "random"}, name):
				name = "internal/" + name
			case name != "" && !strings.HasPrefix(name, "kernels"):
				name = "engine/" + name
			}
			allowed[row[1]][name] = true
		}
	}
	for _, p := range slices.Concat(list(t, "./engine/...", false), list(t, "./internal/...", false), list(t, "./kernels/...", false)) {
		name := strings.TrimPrefix(p.ImportPath, "dsstne/")
		require.Contains(t, allowed, name, "the map in ARCHITECTURE.md has no row for it")
		for _, imported := range p.Imports {
			if own, found := strings.CutPrefix(imported, "dsstne/"); found {
				require.True(t, allowed[name][own], "%s imports %s, which its row in ARCHITECTURE.md does not say", name, own)
			}
		}
	}
}

func TestOnlyTwoPythonFilesKnowCtypes(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "python/dsstne/*.py"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var users []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if strings.Contains(string(text), "import ctypes") || strings.Contains(string(text), "from ctypes") {
			users = append(users, filepath.Base(path))
		}
	}
	require.Equal(t, []string{"_arrow.py", "_native.py"}, users)
}

func TestForeignPackagesAreImportedInOnePlaceEach(t *testing.T) {
	owners := map[string]string{"github.com/apache/arrow/": "dsstne/capi", "gorgonia.org/": "dsstne/kernels/cuda"}
	for _, p := range list(t, "./...", false) {
		for _, imported := range p.Imports {
			for prefix, owner := range owners {
				inPlace := p.ImportPath == owner || strings.HasPrefix(p.ImportPath, owner+"/")
				require.False(t, strings.HasPrefix(imported, prefix) && !inPlace, "%s imports %s", p.ImportPath, imported)
			}
			require.NotEqual(t, "dsstne/capi", imported, "%s imports capi", p.ImportPath)
		}
	}
}

// source is one file of the product, without tests.
type source struct {
	path string
	file *ast.File
}

// sources parses the Go files of the library, by folder.
func sources(t *testing.T) (*token.FileSet, map[string][]source) {
	t.Helper()
	set, folders := token.NewFileSet(), map[string][]source{}
	for _, top := range []string{"capi", "engine", "internal", "kernels"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], source{path, file})
			return err
		})
		require.NoError(t, err)
	}
	return set, folders
}

func TestTheLibraryNeverEndsItsProcessAndLeavesItsSignalsAlone(t *testing.T) {
	forbidden := map[string]bool{
		"os.Exit": true, "syscall.Exit": true, "syscall.Kill": true, "log.Fatal": true, "log.Fatalf": true, "log.Fatalln": true,
		"signal.Notify": true, "signal.Ignore": true, "signal.Reset": true, "runtime.Goexit": true,
	}
	set, folders := sources(t)
	for _, files := range folders {
		for _, s := range files {
			ast.Inspect(s.file, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok {
					if of, ok := selector.X.(*ast.Ident); ok {
						require.False(t, forbidden[of.Name+"."+selector.Sel.Name], "%s: %s.%s",
							set.Position(n.Pos()), of.Name, selector.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func TestEveryGoroutineRecovers(t *testing.T) {
	set, folders := sources(t)
	shared := folders[filepath.Join(root, "internal", "parallel")] // which recovers for other packages
	require.NotEmpty(t, shared)
	for _, files := range folders {
		bodies := functionBodies(slices.Concat(shared, files))
		for _, s := range files {
			ast.Inspect(s.file, func(n ast.Node) bool {
				if started := startedBy(n); started != nil {
					require.True(t, recovers(started, bodies, 3),
						"%s: a panic in this goroutine would end the process; defer a recover in it", set.Position(n.Pos()))
				}
				return true
			})
		}
	}
}

// startedBy is the call that runs in a goroutine of its own: that of a go statement, or of the function given to WaitGroup.Go.
func startedBy(n ast.Node) *ast.CallExpr {
	switch n := n.(type) {
	case *ast.GoStmt:
		return n.Call
	case *ast.CallExpr:
		if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Go" && len(n.Args) == 1 {
			return &ast.CallExpr{Fun: n.Args[0]}
		}
	}
	return nil
}

// functionBodies finds the functions and methods of a package by name, also those that a variable holds.
func functionBodies(files []source) map[string]*ast.BlockStmt {
	bodies := map[string]*ast.BlockStmt{}
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					bodies[n.Name.Name] = n.Body
				}
			case *ast.AssignStmt:
				name, isName := n.Lhs[0].(*ast.Ident)
				if function, ok := n.Rhs[0].(*ast.FuncLit); ok && isName && bodies[name.Name] == nil {
					bodies[name.Name] = function.Body
				}
			}
			return true
		})
	}
	return bodies
}

// recovers reports whether the function of a call defers a recover, itself or in a function it calls.
func recovers(call *ast.CallExpr, bodies map[string]*ast.BlockStmt, depth int) bool {
	body := bodyOf(call, bodies)
	if body == nil || depth == 0 {
		return false
	}
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt:
			found = found || callsRecover(n.Call, bodies)
		case *ast.CallExpr:
			found = found || recovers(n, bodies, depth-1)
		}
		return !found
	})
	return found
}

func bodyOf(call *ast.CallExpr, bodies map[string]*ast.BlockStmt) *ast.BlockStmt {
	switch function := call.Fun.(type) {
	case *ast.FuncLit:
		return function.Body
	case *ast.Ident:
		return bodies[function.Name]
	case *ast.SelectorExpr:
		return bodies[function.Sel.Name]
	}
	return nil
}

// callsRecover reports whether a deferred call runs recover in its own body, where alone it works.
func callsRecover(call *ast.CallExpr, bodies map[string]*ast.BlockStmt) bool {
	body := bodyOf(call, bodies)
	if body == nil {
		return false
	}
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if inner, ok := n.(*ast.CallExpr); ok {
			if name, ok := inner.Fun.(*ast.Ident); ok && name.Name == "recover" {
				found = true
			}
		}
		return !found
	})
	return found
}

func TestTheEngineKnowsNoBackendByName(t *testing.T) {
	names := map[string]bool{}
	for _, p := range list(t, "./kernels/...", false) {
		if path.Dir(p.ImportPath) == "dsstne/kernels" {
			names[strconv.Quote(path.Base(p.ImportPath))] = true
		}
	}
	require.Contains(t, names, `"cuda"`)
	set, folders := sources(t)
	for folder, files := range folders {
		if !strings.HasPrefix(folder, filepath.Join(root, "engine")) {
			continue
		}
		for _, s := range files {
			ast.Inspect(s.file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok {
					require.False(t, names[literal.Value], "%s: %s; ask for a role instead", set.Position(n.Pos()), literal.Value)
				}
				return true
			})
		}
	}
}

func TestNoLineOfTheProductHasMoreThan120Characters(t *testing.T) {
	_, folders := sources(t)
	for _, files := range folders {
		for _, s := range files {
			text, err := os.ReadFile(s.path)
			require.NoError(t, err)
			for number, line := range strings.Split(string(text), "\n") {
				require.LessOrEqual(t, utf8.RuneCountInString(line), 120, "%s:%d", s.path, number+1)
			}
		}
	}
}

func TestNoSourceFileHasMoreThan500Lines(t *testing.T) {
	set, folders := sources(t)
	for _, files := range folders {
		for _, s := range files {
			require.LessOrEqual(t, set.Position(s.file.FileEnd).Line, 500, s.path)
		}
	}
}
