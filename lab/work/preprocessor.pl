# preprocessor.pl ROUNDS FILES... - what the C preprocessor would decide: conditions with their nesting, macros, includes
use strict;
use warnings;

my $rounds = shift @ARGV;
my $report = '';

# The logical lines of a file: comments gone, continued lines joined.
sub lines_of {
    my ($path) = @_;
    open(my $in, '<', $path) or die "$path: $!\n";
    local $/;
    my $text = <$in>;
    $text =~ s{/\*.*?\*/}{ }gs;
    $text =~ s{//[^\n]*}{}g;
    $text =~ s/\\\n/ /g;
    return split /\n/, $text;
}

for my $round (1 .. $rounds) {
    my (%macros, %uses, %guards, %included, @stack);
    my ($deepest, $lines) = (0, 0);
    for my $path (@ARGV) {
        @stack = ();
        for my $line (lines_of($path)) {
            $lines++;
            if ($line =~ /^\s*#\s*(if|ifdef|ifndef)\b\s*(.*)/) {
                push @stack, $1 eq 'if' ? $2 : $1 eq 'ifdef' ? "defined $2" : "!defined $2";
                $deepest = @stack if @stack > $deepest;
                push @{ $guards{ join ' && ', map { "($_)" } @stack } }, "$path:$lines";
            } elsif ($line =~ /^\s*#\s*(?:else|elif)\b\s*(.*)/ && @stack) {
                $stack[-1] = "!($stack[-1])" . (length $1 ? " && $1" : '');
            } elsif ($line =~ /^\s*#\s*endif/) {
                pop @stack;
            } elsif ($line =~ /^\s*#\s*define\s+(\w+)(\([^)]*\))?\s*(.*)/) {
                push @{ $macros{$1} }, { arguments => $2 // '', body => $3, when => [@stack], where => $path };
            } elsif ($line =~ /^\s*#\s*include\s*[<"]([^>"]+)/) {
                $included{$1}{$path}++;
            }
            $uses{$_}++ for $line =~ /\b([A-Z][A-Z0-9_]{2,})\b/g;
        }
    }
    my @several = grep { @{ $macros{$_} } > 1 } sort keys %macros;
    my @unused = grep { ($uses{$_} // 0) <= 1 } sort keys %macros;
    my @popular = sort { keys %{ $included{$b} } <=> keys %{ $included{$a} } || $a cmp $b } keys %included;
    $report = sprintf "%d lines, %d macros, %d defined more than once, %d used once, %d conditions, %d deep, first %s\n",
        $lines, scalar keys %macros, scalar @several, scalar @unused, scalar keys %guards, $deepest, $popular[0] // '';
}
print $report;
