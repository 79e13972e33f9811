#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# program.sh WARM: builds a C++ program twice under `warm run`, and fails unless the second build is a hit
# with the same bytes. root_run ends the daemon that it starts, with the root's other processes.
set -eu
warm=$1
dir=$(mktemp -d)
cd "$dir"
cat >words.cc <<'END'
#include <iostream>
#include <map>
#include <regex>
#include <string>
int main()
{
    std::map<std::string, int> count;
    std::string line = "the start of the start";
    std::regex words("\\w+");
    for (std::sregex_iterator i(line.begin(), line.end(), words), end; i != end; ++i)
        count[i->str()]++;
    for (auto &word : count)
        std::cout << word.first << ' ' << word.second << '\n';
}
END
for run in cold warm; do
    $warm run --report g++ -O2 -c words.cc -o $run.o 2>$run.txt || { cat $run.txt; exit 1; }
    cat $run.txt
done
grep -q ' 0 hits' cold.txt
grep -q ' 1 hit' warm.txt
cmp cold.o warm.o
g++ warm.o -o words
./words | grep -q 'start 2'
rm -rf "$dir"
