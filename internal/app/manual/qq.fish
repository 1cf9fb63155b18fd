# fish completion for qq: qq completion fish | source
function __qq_complete
    set -l cur (commandline -ct)
    set -l before (commandline -opc)
    set -l lines (command qq __complete -- $before[2..-1] "$cur" </dev/null 2>/dev/null)
    for line in $lines[2..-1]
        echo $line
    end
    set -l prefix (string match -r -- '^--[^=]*=' "$cur")
    set -l path (string replace -r -- '^--[^=]*=' '' "$cur")
    switch "$lines[1]"
        case files
            for file in (__fish_complete_path "$path")
                echo "$prefix$file"
            end
        case folders
            for file in (__fish_complete_directories "$path" '')
                echo "$prefix$file"
            end
    end
end
complete -c qq -f -k -a '(__qq_complete)'
