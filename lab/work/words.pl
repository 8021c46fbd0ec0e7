# words.pl FILES... - a perl program on real text: an index of all words, phrases and lines of the files
use strict;
use warnings;

my (%words, %phrases, %where, %by_length, @lines);
for my $path (@ARGV) {
    open(my $file, '<', $path) or die "$path: $!\n";
    while (my $line = <$file>) {
        chomp $line;
        my @found = $line =~ /[A-Za-z_]\w*/g;
        $words{$_}++ for @found;
        $phrases{"$found[$_] $found[$_ + 1]"}++ for 0 .. $#found - 1;
        push @{ $where{ $found[0] } }, $. if @found;
        (my $squeezed = $line) =~ s/\s+/ /g;
        push @lines, $squeezed;
    }
    close $file;
}
push @{ $by_length{ length $_ } }, $_ for keys %words;
my $longest = (sort { $b <=> $a } keys %by_length)[0];
my @sorted = sort @lines;
my $joined = join "\n", @sorted;
my $sum = unpack '%32C*', $joined;

printf "%d files, %d lines, %d words, %d phrases, checksum %d\n",
    scalar @ARGV, scalar @lines, scalar keys %words, scalar keys %phrases, $sum;
printf "%8d %s\n", $words{$_}, $_ for (sort { $words{$b} <=> $words{$a} || $a cmp $b } keys %words)[0 .. 19];
printf "%8d %s\n", $phrases{$_}, $_ for (sort { $phrases{$b} <=> $phrases{$a} || $a cmp $b } keys %phrases)[0 .. 9];
printf "%d lines begin with 'def', the longest word has %d letters: %s\n",
    scalar @{ $where{def} }, $longest, join ' ', sort @{ $by_length{$longest} };
